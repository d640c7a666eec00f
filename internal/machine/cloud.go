package machine

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

const dmi = "/sys/class/dmi/id/"

// Cloud is where a rented machine stands. Empty fields are unknown.
type Cloud struct{ Provider, Region, Zone, InstanceType string }

// FindCloud recognizes a rented machine by its DMI strings, as cloud-init's
// ds-identify does, and takes region and zone from what cloud-init left on the
// disk. The error says why no provider was recognized.
func FindCloud(h *host.Host) (Cloud, error) {
	vendor, product := text(h, dmi+"sys_vendor"), text(h, dmi+"product_name")
	tag, bios := text(h, dmi+"chassis_asset_tag"), text(h, dmi+"bios_vendor")
	c, err := cloudInit(h)
	named := c.Provider
	c.Provider = ""
	switch {
	case vendor == "Amazon EC2": // Nitro names the type
		c.Provider, c.InstanceType = "aws", product
	case bios == "Amazon EC2" || strings.Contains(text(h, dmi+"bios_version"), "amazon"): // Xen
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
	default:
		c.Provider = named
	}
	switch {
	case c.Provider != "":
		return c, nil
	case err != nil:
		return c, err
	case vendor == "" && tag == "":
		return c, fmt.Errorf("the machine has no DMI strings, and cloud-init left none")
	}
	return c, fmt.Errorf("DMI vendor %q is not that of a known cloud", vendor)
}

// cloudInit reads cloud-init's record of the instance. The type is in what the
// provider's own service said, each in its own place.
func cloudInit(h *host.Host) (Cloud, error) {
	const file = "/run/cloud-init/instance-data.json"
	b, err := h.ReadFile(file)
	if err != nil {
		return Cloud{}, nil // no cloud-init
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
		return Cloud{}, fmt.Errorf("parse %s: %w", file, err)
	}
	kind := d.DS.Meta.Type
	if kind == "" {
		kind = d.DS.Meta.IMDS.Compute.Size
	}
	if d.V1.Name == "none" || d.V1.Name == "nocloud" {
		d.V1.Name = ""
	}
	return Cloud{d.V1.Name, d.V1.Region, d.V1.Zone, kind}, nil
}
