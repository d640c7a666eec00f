package environment

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/result"
)

// OtherMachine says why a machine's costs do not apply to an arm; "" if they do.
func OtherMachine(env *result.Environment, f machine.Fingerprint) string {
	switch {
	case env.Hardware.CPUModel == "" || env.Software.Kernel == "":
		return env.ID + " did not say what machine it is"
	case !strings.Contains(f.CPU, env.Hardware.CPUModel) || !strings.HasPrefix(f.Kernel, env.Software.Kernel+" "):
		return fmt.Sprintf("%s ran on kernel %s of another machine or guest", env.ID, env.Software.Kernel)
	}
	// Hypervisors may hide it from either.
	if was, now := env.Hardware.Microcode, f.Microcode(); was != "" && now != "" && was != now {
		return fmt.Sprintf("%s ran with microcode %s, and the costs of this machine were measured with %s; microcode can change them several times", env.ID, was, now)
	}
	return ""
}
