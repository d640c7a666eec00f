package observe

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/crypto/bcrypt"
	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/web"
)

// authorityFlags are the flags that say who may change settings.
func (s *Settings) authorityFlags(f *pflag.FlagSet) {
	f.StringVar(&s.Socket, "socket", "", "Unix socket through which root, the monitor's user and members of --operators can change settings (default /run/teescope/PORT.sock as root)")
	f.StringVar(&s.Operators, "operators", "", "group whose members may change settings through the socket")
}

// SocketPath returns the default path of the socket of a monitor that listens on a port.
func SocketPath(folder, port string) string { return filepath.Join(folder, port+".sock") }

// openSocket opens the socket and fills in who may change settings. A default place that this process cannot use is no reason not to
// monitor: then there is no socket, and the reason is shown. One that another process uses is.
func (s Settings) openSocket(o *Observer) error {
	ao := authority.Options{Self: os.Geteuid(), Group: -1, Now: o.Host.Now, Operators: o.operators}
	if s.Operators != "" {
		var err error
		if ao.Group, err = groupOf(s.Operators); err != nil {
			return err
		}
	}
	if o.Port.Config == "" && len(o.Config.Shared().Operators) > 0 {
		o.Log.Warn("operators in the configuration have no effect without --web-config, which authenticates them")
	}
	o.names.Store(&o.Config.Shared().Operators)
	ao.Authentic = func(name, password string) bool { return authentic(o.Port.Config, name, password) }
	o.Authority = authority.New(ao)

	path, given := s.Socket, s.Socket != ""
	var err error
	if !given {
		_, port, _ := net.SplitHostPort(o.Listener.Addr().String())
		folder := host.SocketFolder()
		path, err = SocketPath(folder, port), host.MakeSocketFolder(folder)
		if s.Operators != "" && folder != host.SystemSockets && os.Getenv("RUNTIME_DIRECTORY") == "" {
			return fmt.Errorf("--operators %s: the socket would be in %s, which only this user can enter; name another place with --socket", s.Operators, folder)
		}
	}
	if err == nil {
		o.socket, err = host.ListenSocket(path, ao.Group)
	}
	switch {
	case err == nil:
		o.socketPath = path
	case given || s.Operators != "" || errors.Is(err, host.ErrSocketInUse):
		return fmt.Errorf("listen on the Unix socket %s: %w; choose another with --socket", path, err)
	default:
		o.noSocket = fmt.Sprintf("listen on %s: %v; choose another place with --socket", path, err)
		o.Log.Warn("no Unix socket, so only operators of --web-config can change settings", "error", o.noSocket)
	}
	return nil
}

// groupOf returns the id of a group, given by name or id.
func groupOf(name string) (int, error) {
	if g, err := user.LookupGroup(name); err == nil {
		return strconv.Atoi(g.Gid)
	}
	id, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("--operators %q: no such group; make it with `groupadd %s`, or name another", name, name)
	}
	return int(id), nil
}

// operators returns the operators of the configuration in force.
func (o *Observer) operators() []string { return *o.names.Load() }

// authentic reports whether a web configuration file has a user with this password now. exporter-toolkit, which has checked that already,
// lets every request pass as soon as the file names no user.
func authentic(file, name, password string) bool {
	if file == "" {
		return false
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	var c struct {
		Users map[string]string `yaml:"basic_auth_users"`
	}
	if yaml.Unmarshal(b, &c) != nil {
		return false
	}
	hash, ok := c.Users[name]
	return ok && bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
}

// serveSocket answers on the Unix socket until the function that it returns is called.
func (o *Observer) serveSocket(h http.Handler) (stop func()) {
	if o.socket == nil {
		return func() {}
	}
	srv := &http.Server{Handler: o.Authority.Socket(h), ConnContext: authority.OverSocket, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(o.socket) }()
	return func() {
		_ = srv.Close() // which removes the socket
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("the Unix socket failed", "socket", o.socketPath, "error", contain.OneLine(err))
		}
	}
}

// Unlock says how a client gets the right to change settings; page: there is one.
func (o *Observer) Unlock(page bool) web.Unlock {
	u := web.Unlock{Where: "on " + cmp.Or(o.Platform.Hostname, "unknown"), Socket: o.socketPath, NoSocket: o.noSocket}
	if !page || u.Socket == "" {
		return u
	}
	u.URL = o.URL() + "/"
	_, port, _ := net.SplitHostPort(o.Listener.Addr().String())
	u.Command = "teescope open"
	if u.Socket != SocketPath(host.SystemSockets, port) || port != authority.DefaultPort { // the link is then where this monitor listens
		u.Command += " --socket " + u.Socket
	}
	switch pod, _ := os.Hostname(); {
	case os.Getenv("KUBERNETES_SERVICE_HOST") != "":
		u.Command, u.Where = "kubectl exec "+pod+" -- /teescope open --server "+o.Port.Scheme()+"://127.0.0.1:"+port, "where kubectl reaches the pod"
	case o.Host.Root != "/":
		u.Command, u.Where = "/"+u.Command, "in its container"
	case os.Geteuid() == 0 || filepath.Dir(u.Socket) == host.SystemSockets:
		u.Command = "sudo " + u.Command
	}
	return u
}
