// Word lists for synthetic keywords, countries and channels.

export const qualities = [
  'best', 'cheap', 'new', 'used', 'small', 'large', 'red', 'blue', 'green', 'black', 'white', 'fast', 'free', 'local',
  'vegan', 'wooden', 'leather', 'electric', 'solar', 'organic', 'vintage', 'modern', 'outdoor', 'indoor', 'kids', 'mens',
  'womens', 'portable', 'foldable', 'waterproof', 'smart', 'silent',
] as const // biome-ignore format: a word list

export const productNouns = [
  'shoes', 'laptop', 'sofa', 'bicycle', 'tent', 'camera', 'phone case', 'desk lamp', 'coffee machine', 'backpack', 'jacket',
  'headphones', 'mattress', 'garden chair', 'kettle', 'monitor', 'keyboard', 'guitar', 'drone', 'printer', 'watch',
  'sunglasses', 'suitcase', 'blender', 'toaster', 'rug', 'curtains', 'bookshelf', 'lawn mower', 'drill', 'paint',
  'running shorts', 'yoga mat', 'dumbbells', 'water bottle', 'umbrella', 'gloves', 'scarf', 'boots', 'sandals', 'toothbrush',
  'shampoo', 'perfume', 'candles', 'pillow', 'duvet', 'frying pan', 'knife set', 'board game', 'puzzle', 'toy train',
  'doll house', 'baby stroller', 'car seat', 'dog bed', 'cat tree', 'aquarium', 'bird feeder', 'wallpaper', 'ladder',
  'toolbox', 'heater', 'fan', 'air purifier',
] as const // biome-ignore format: a word list

export const keywordSuffixes = [
  '', 'near me', 'online', 'reviews', 'on sale', 'price', 'for beginners', 'how to clean', '2026', 'brands', 'under 100',
  'buy', 'comparison', 'repair', 'size guide', 'gift ideas', 'second hand', 'rental', 'store', 'with warranty', 'delivery',
  'discount code', 'pictures', 'ideas', 'diy', 'set', 'parts', 'manual', 'alternatives', 'top 10', 'for sale', 'outlet',
] as const // biome-ignore format: a word list

/** Keywords that break careless readers; each domain with a few hundred keywords has them all. */
export const awkwardKeywords = [
  'null', 'NA', 'N/A', '007', '00420', '-', 'true', '1e5', '東京 ホテル', '🍕 near me', 'كتب للأطفال', 'best "cheap" shoes',
  "o'reilly books", 'red, blue and green', 'c:\\temp', 'caf\u00e9', 'cafe\u0301', 'straße', '=1+1', 'a;b|c', 'tab\there',
  '100%', '<b>bold</b>', 'İstanbul', '한국어 사전', 'нож', '\\N', '9007199254740993',
] as const // biome-ignore format: a word list

export const serpFeatures = [
  'news', 'video', 'organic', 'organic_sitelinks', 'organic_expanded_sitelinks', 'organic_inline_sitelinks',
  'related_questions', 'twitter',
] as const // biome-ignore format: a word list

/** Countries a sandbox key may ask for, apart from the whole world. */
export const countries: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ar: 'Argentina', at: 'Austria', au: 'Australia', be: 'Belgium', br: 'Brazil', ca: 'Canada', ch: 'Switzerland',
    cl: 'Chile', co: 'Colombia', cz: 'Czechia', de: 'Germany', dk: 'Denmark', eg: 'Egypt', es: 'Spain', fi: 'Finland',
    fr: 'France', gb: 'United Kingdom', gr: 'Greece', hk: 'Hong Kong', hu: 'Hungary', id: 'Indonesia', ie: 'Ireland',
    il: 'Israel', in: 'India', it: 'Italy', jp: 'Japan', ke: 'Kenya', kr: 'South Korea', mx: 'Mexico', my: 'Malaysia',
    ng: 'Nigeria', nl: 'Netherlands', no: 'Norway', nz: 'New Zealand', pe: 'Peru', ph: 'Philippines', pl: 'Poland',
    pt: 'Portugal', ro: 'Romania', sa: 'Saudi Arabia', se: 'Sweden', sg: 'Singapore', th: 'Thailand', tr: 'Turkey',
    tw: 'Taiwan', ua: 'Ukraine', us: 'United States', vn: 'Vietnam', za: 'South Africa',
  }), // biome-ignore format: a word list
)
