// What `npm ci` brought to a checkout, in one line: as `prepublish`, which npm runs there alone and asks no user of the package about. Plain JavaScript, since the Node.js that runs it may be an old one; to standard error, since
// `npm pack --json` writes to the other.
console.error('This checkout has its own Node.js 26 and PostgreSQL 18: nothing else is to be installed. Next: npx millrace demo')
