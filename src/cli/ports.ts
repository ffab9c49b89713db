// Where the servers of the command line listen unless told otherwise; their help says the same.

/** The status page. */
export const pagePort = 7433

/** `millrace mcp --http`. */
export const mcpPort = 7434
