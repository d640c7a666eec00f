package attest

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-configfs-tsm/configfs/configfsi"
	"github.com/google/go-configfs-tsm/configfs/linuxtsm"
	"github.com/google/go-configfs-tsm/report"
)

// configfsTSM is the kernel's one interface to the quotes of TDX, SEV-SNP and CCA
// guests (Documentation/ABI/testing/configfs-tsm-report), since Linux 6.7.
var configfsTSM = Provider{
	Name: "configfs-tsm",
	Doc:  "the TEE of this guest, by /sys/kernel/config/tsm/report",
	Open: func(Settings) (Quoter, Collateral, error) {
		c, err := linuxtsm.MakeClient()
		if err != nil {
			return nil, nil, fmt.Errorf("open configfs-tsm: %w: %w (evidence of this kind needs a confidential VM, Linux 6.7 or newer, a mounted configfs and root)", errors.ErrUnsupported, err)
		}
		return tsm{c}, Vendors(), nil
	},
}

type tsm struct{ client configfsi.Client }

// Quote makes an entry of its own in the kernel's folder for each call, so that
// concurrent ones do not take each other's answers (attribute generation).
func (t tsm) Quote(ctx context.Context, data [Size]byte) (*Evidence, error) {
	if err := ctx.Err(); err != nil { // the kernel's call itself cannot be ended
		return nil, err
	}
	r, err := report.Get(t.client, &report.Request{InBlob: data[:], GetAuxBlob: true})
	if err != nil {
		return nil, fmt.Errorf("get a quote: %w", err)
	}
	return signedPart(&Evidence{Format: r.Provider, Quote: r.OutBlob, Aux: r.AuxBlob})
}
