package load

// Lines that a program with a load prints before the first and after the last request
// in Report.Counted, with none in flight. The counting program reads its counters then,
// and sends a line for the load to continue.
const (
	Begins = "counting"
	Ends   = "counted"
)

// Waits begins the line of a program with a load that has waited for a while; the rest says for what.
const Waits = "note: waiting for "

// Limits of a load. Local ports towards one server are limited; requests in flight
// on a connection are bounded so that a mistyped number does not use up the memory.
const (
	MostConnections = 1 << 16
	MostPipeline    = 1 << 10
	MostRate        = 1e8 // requests per second
	// MostKeys keeps keys within their number of digits.
	MostKeys = 1_000_000_000
)

// MostChats bounds the requests of a load, and those under way at once.
const MostChats = 10_000
