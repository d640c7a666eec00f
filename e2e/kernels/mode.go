package kernels

// mode is a way to boot a kernel.
type mode struct {
	name, append string
	withoutBTF   bool
	// every says that all kernels are booted so, not only those that the table
	// looks at closely.
	every bool
}

var modes = []mode{
	{name: "plain", every: true},
	{name: "integrity", append: "lockdown=integrity"},
	{name: "confidentiality", append: "lockdown=confidentiality", every: true},
	{name: "no BTF", withoutBTF: true, every: true},
}

// close reports whether a kernel is tried in all flavours and modes: those of
// Debian 12. Of other series the flavour for clouds stands for all.
func close(im Image) bool {
	return im.Series == Version{6, 1} || im.Series == Version{6, 12} && im.Release == "deb12"
}
