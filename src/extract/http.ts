export type HttpClient = unknown
