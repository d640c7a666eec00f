package work

// All is every command, in the order of the usage text.
var All = []*Command{
	&loadCommand,
	&gateway,
	&origin,
	&iperf,
	&wireGuard,
	&attestation,
}
