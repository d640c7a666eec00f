// Package port opens the ports of a monitor, an agent and a tunnel: who may reach them, how many may be connected, and for how long.
package port

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
)

// Listen opens the port of a flag before anything else, so a second monitor stops before
// it touches anything.
func Listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is in use, perhaps by another teescope; stop that one, or choose another port with %s", addr, flag)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w; %s wants HOST:PORT", addr, err, flag)
	}
	return l, nil
}

// loopback reports whether l can be reached from this machine only.
func loopback(l net.Listener) bool {
	a, err := netip.ParseAddrPort(l.Addr().String())
	return err == nil && a.Addr().IsLoopback()
}

// Serve answers on l until ctx ends, then gives running requests three seconds.
func Serve(ctx context.Context, l net.Listener, h http.Handler, webConfig string, log *slog.Logger) error {
	l = limitConnections(l, connectionLimit())
	srv := &http.Server{Handler: untimed(h), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readPatience, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	failed := make(chan error, 1)
	go func() {
		no := false
		failed <- web.ServeMultiple([]net.Listener{l}, srv, &web.FlagConfig{WebConfigFile: &webConfig, WebSystemdSocket: &no}, log)
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		return srv.Close() // a long query does not hold up the stop
	}
	return nil
}
