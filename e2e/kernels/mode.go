package kernels

// mode is a way to boot a kernel.
type mode struct {
	name, append string
	withoutBTF   bool
	// every means that all kernels boot in this mode, not only the close ones.
	every bool
}

var modes = []mode{
	{name: "plain", every: true},
	{name: "integrity", append: "lockdown=integrity"},
	{name: "confidentiality", append: "lockdown=confidentiality", every: true},
	{name: "no BTF", withoutBTF: true, every: true},
}

// close reports whether a kernel is tested in all flavours and modes, as Debian 12's are. Other
// series are tested in the cloud flavour.
func close(im Image) bool {
	return im.Series == Version{6, 1} || im.Series == Version{6, 12} && im.Release == "deb12"
}
