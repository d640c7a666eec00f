package rules

import "fmt"

// What an event of a TEE costs where this machine cannot measure it: numbers that
// others measured on processors of theirs. Microcode against side channels alone
// has changed some of them twofold, so what is made from them is an order of
// magnitude, and says whose number it is.
const (
	// One call into an enclave or out of it and back, through the SDK's interface.
	callCyclesLow, callCyclesHigh = 8_200, 17_000
	hotCalls                      = "Weisse, Bertacco, Austin: Regaining Lost Cycles with HotCalls (ISCA 2017), https://doi.org/10.1145/3140659.3080208"

	// One page of the EPC written out and another one loaded back, with its fault.
	swapCycles = 40_000
	vault      = "Taassori, Shafiee, Balasubramonian: VAULT: Reducing Paging Overheads in SGX (ASPLOS 2018), https://doi.org/10.1145/3296957.3177155"

	// One entry into a plain virtual machine and its exit, with nothing done in between:
	// from before VMRUN until after it on an AMD processor, Linux 5.10.
	exitCycles = 1_350
	vmrun      = "https://lkml.iu.edu/hypermail/linux/kernel/2012.2/00527.html"

	sgxDocument = "https://docs.kernel.org/arch/x86/sgx.html"
	tdxDocument = "https://docs.kernel.org/arch/x86/tdx.html"
)

// cycles says what a number of cycles per second is of a core, for readers who do
// not have their processor's clock in mind.
func cycles(low, high float64) string {
	const clock = 3e9
	if low == high {
		return fmt.Sprintf("%s million cycles a second, %s of a core at 3 GHz", count(low/1e6), percent(low/clock))
	}
	return fmt.Sprintf("%s to %s million cycles a second, %s to %s of a core at 3 GHz",
		count(low/1e6), count(high/1e6), percent(low/clock), percent(high/clock))
}
