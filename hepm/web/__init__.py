"""What `hepm serve` answers over HTTP, and the two pages: the live one of the server and the graph of `hepm view`."""
