export interface HttpClient {}
