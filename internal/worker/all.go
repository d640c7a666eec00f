package worker

// All is every command, in the order of the usage text.
var All = []*Command{
	&loadCommand,
	&llm,
	&llmServer,
	&foreign,
	&gateway,
	&origin,
	&tlsServer,
	&tlsClient,
	&certificate,
	&identity,
	&iperf,
	&wireGuard,
	&attestation,
	&channelCommand,
	&clockServer,
	&lockServer,
	&faultServer,
	&sinkCommand,
	&flow,
}
