package environment

import (
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/result"
)

// cloud fills in where a rented machine is hosted. It does not query the metadata service, which may be unreachable
// and is not part of the measurement.
func (s *scene) cloud() {
	found, err := machine.FindCloud(s.Host)
	if err != nil {
		s.miss("cloud", "%s", err)
		return
	}
	c := result.Cloud(found)
	s.Cloud = &c
	for field, v := range map[string]string{"region": c.Region, "zone": c.Zone, "instance_type": c.InstanceType} {
		if v == "" {
			s.miss("cloud."+field, "neither DMI nor cloud-init has it; the metadata service was not asked")
		}
	}
}
