//go:build !linux

package attest

import (
	"errors"

	"github.com/google/go-tpm/tpm2/transport"
)

var errLinux = errors.New("only Linux can collect evidence; this machine can only verify evidence")

func openNSM(string) (func(request, answer []byte) (int, error), error) { return nil, errLinux }

func openTPMDevice(string) (transport.TPMCloser, error) { return nil, errLinux }
