// The package's front door loads limiters for every store there is, 40 ms of each command; this is the file that is needed.
declare module 'rate-limiter-flexible/lib/RateLimiterPostgres.js' {
  export { RateLimiterPostgres as default } from 'rate-limiter-flexible'
}
