package worker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/teescope/teescope/internal/load"
)

var certificate = Command{
	Name: "certificate",
	Doc:  "make a self-signed certificate and key for a server under test",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		out := f.String("out", "certs", "folder that gets server.pem and server.key")
		names := f.String("names", "localhost,127.0.0.1", "names and addresses of the server, separated by commas")
		return func(_ context.Context, s Streams) error {
			cert, key, err := load.Certificate("", strings.Split(*names, ",")...)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(*out, 0o755); err != nil {
				return err
			}
			certFile, keyFile := filepath.Join(*out, "server.pem"), filepath.Join(*out, "server.key")
			if err := errors.Join(os.WriteFile(keyFile, key, 0o600), os.WriteFile(certFile, cert, 0o644)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "{\"certificate\":%q,\"key\":%q}\n", certFile, keyFile)
			return err
		}
	},
}
