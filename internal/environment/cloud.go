package environment

import (
	"encoding/json"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

const dmi = "/sys/class/dmi/id/"

// cloud tells a rented machine by its DMI strings, as cloud-init's ds-identify
// does, and takes region and zone from what cloud-init left on the disk. The
// metadata service is not asked: it may be out of reach and is not part of what
// is measured.
func (s *scene) cloud() {
	vendor, product := s.optional(dmi+"sys_vendor"), s.optional(dmi+"product_name")
	tag, bios := s.optional(dmi+"chassis_asset_tag"), s.optional(dmi+"bios_vendor")
	left := s.cloudInit()
	c := result.Cloud{Region: left.region, Zone: left.zone, InstanceType: left.kind}
	switch {
	case vendor == "Amazon EC2": // Nitro names the type
		c.Provider, c.InstanceType = "aws", product
	case bios == "Amazon EC2" || strings.Contains(s.optional(dmi+"bios_version"), "amazon"): // Xen
		c.Provider = "aws"
	case vendor == "Google" && product == "Google Compute Engine":
		c.Provider = "gcp"
	case tag == "7783-7084-3265-9085-8269-3286-77": // "MSFT AZURE VM" in digits
		c.Provider = "azure"
	case strings.HasPrefix(product, "Alibaba Cloud"):
		c.Provider = "alibaba"
	case tag == "OracleCloud.com":
		c.Provider = "oracle"
	case vendor == "DigitalOcean" || vendor == "Hetzner" || vendor == "Scaleway" || vendor == "UpCloud" || vendor == "Vultr":
		c.Provider = strings.ToLower(vendor)
	case vendor == "Tencent Cloud":
		c.Provider = "tencent"
	case tag == "OpenTelekomCloud":
		c.Provider = "otc"
	case strings.HasPrefix(product, "OpenStack"):
		c.Provider = "openstack"
	case left.name != "":
		c.Provider = left.name
	}
	if c.Provider == "" {
		if vendor == "" && tag == "" {
			s.miss("cloud", "the machine has no DMI strings, and cloud-init left none")
		} else {
			s.miss("cloud", "DMI vendor %q is not that of a known cloud", vendor)
		}
		return
	}
	s.Cloud = &c
	delete(s.Missing, "cloud")
	for field, v := range map[string]string{"region": c.Region, "zone": c.Zone, "instance_type": c.InstanceType} {
		if v == "" {
			s.miss("cloud."+field, "neither DMI nor cloud-init says; the metadata service was not asked")
		}
	}
}

type cloudInit struct{ name, region, zone, kind string }

// cloudInit reads cloud-init's record of the instance, which anyone may read.
// The type is in what the provider's own service said, each in its own place.
func (s *scene) cloudInit() cloudInit {
	b, err := s.ReadFile("/run/cloud-init/instance-data.json")
	if err != nil {
		return cloudInit{}
	}
	var d struct {
		V1 struct {
			Name   string `json:"cloud_name"`
			Region string `json:"region"`
			Zone   string `json:"availability_zone"`
		} `json:"v1"`
		DS struct {
			Meta struct {
				Type string `json:"instance-type"`
				IMDS struct {
					Compute struct {
						Size string `json:"vmSize"`
					} `json:"compute"`
				} `json:"imds"`
			} `json:"meta_data"`
		} `json:"ds"`
	}
	if err := json.Unmarshal(b, &d); err != nil {
		s.miss("cloud", "parse /run/cloud-init/instance-data.json: %s", err)
		return cloudInit{}
	}
	kind := d.DS.Meta.Type
	if kind == "" {
		kind = d.DS.Meta.IMDS.Compute.Size
	}
	if d.V1.Name == "none" || d.V1.Name == "nocloud" {
		d.V1.Name = ""
	}
	return cloudInit{d.V1.Name, d.V1.Region, d.V1.Zone, kind}
}
