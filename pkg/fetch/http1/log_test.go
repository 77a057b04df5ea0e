package http1

import (
	"io"
	"log"
)

// discardLog takes what net/http's server says about our bad clients.
var discardLog = log.New(io.Discard, "", 0)
