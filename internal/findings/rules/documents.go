package rules

// Documents that several rules refer to.
const (
	sgxDocument = "https://docs.kernel.org/arch/x86/sgx.html"
	tdxDocument = "https://docs.kernel.org/arch/x86/tdx.html"
)
