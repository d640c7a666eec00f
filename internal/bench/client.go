package bench

// Client is the machine on which the outside of jobs runs, beside the harness's own.
type Client struct {
	// Server is this machine's address as the client sees it, on which servers listen.
	Server string
}

// server is the address that takes the place of {host}.
func (c *Client) server() string {
	if c == nil {
		return "127.0.0.1"
	}
	return c.Server
}
