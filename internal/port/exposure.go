package port

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/web"
)

// Exposure decides who may reach a port: beyond loopback it wants TLS and authentication, or to be told that neither is wanted.
type Exposure struct {
	Config   string   // the file of --web-config
	names    []string // further names of this machine
	Insecure bool

	flag    string // of the address, with its dashes
	unsafe  string // that of insecure
	readers string // the warning: what everyone who reaches the port can do
}

// Flags adds the flags of the port whose address is in the flag address.
func (e *Exposure) Flags(f *pflag.FlagSet, address, unsafe, readers string) {
	e.flag, e.unsafe, e.readers = "--"+address, "--"+unsafe, readers
	f.StringVar(&e.Config, "web-config", "", "`FILE` with TLS and authentication settings of "+e.flag+", in exporter-toolkit's format")
	f.StringArrayVar(&e.names, "host-name", nil, "further `NAME` by which "+e.flag+" is reached, as that of a proxy or a service (repeatable; *.example: each name with one label more)")
	f.BoolVar(&e.Insecure, unsafe, false, "serve "+e.flag+" to other machines although --web-config lacks TLS or authentication")
}

// Listen opens the port at addr (HOST:PORT) unless the settings would show it to other machines without asking who they are. It
// warns where the user has allowed that.
func (e *Exposure) Listen(ctx context.Context, addr string, log *slog.Logger) (net.Listener, error) {
	for i, name := range e.names {
		clean, err := web.CleanHostName(name)
		if err != nil {
			return nil, fmt.Errorf("--host-name: %w", err)
		}
		e.names[i] = clean
	}
	c, err := readWebConfig(e.Config)
	if err != nil {
		return nil, err
	}
	// A name is looked up once, so the address that is judged is the one that is opened.
	at, local, err := resolve(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; %s wants HOST:PORT", addr, err, e.flag)
	}
	if name, _, _ := net.SplitHostPort(addr); net.ParseIP(name) == nil {
		e.names = append(e.names, cleanNames([]string{name})...)
	}
	if lack, mend := unprotected(c, e.Config); !local && lack != "" {
		_, port, _ := net.SplitHostPort(at)
		if !e.Insecure {
			return nil, fmt.Errorf("%s %s: other machines reach this address, and %s; %s; or serve only this machine with `%s=%s`; or let everyone read with `%s`",
				e.flag, addr, lack, mend, e.flag, net.JoinHostPort("127.0.0.1", port), e.unsafe)
		}
		log.Warn(e.readers, "address", addr, "reason", lack, "allowed_by", e.unsafe)
	}
	return Listen(ctx, e.flag, at)
}

// resolve returns addr with an address in place of a host's name, and whether only this machine can reach it. As net.Listen does, it
// prefers IPv4.
func resolve(ctx context.Context, addr string) (at string, local bool, err error) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil || name == "" {
		return addr, false, err
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		if err != nil {
			return "", false, err
		}
		slices.SortStableFunc(all, func(a, b netip.Addr) int { return cmp.Compare(a.Unmap().BitLen(), b.Unmap().BitLen()) })
		ip = all[0]
	}
	return net.JoinHostPort(ip.Unmap().String(), port), ip.Unmap().IsLoopback(), nil
}

// unprotected returns what a web configuration lacks to let only known users in over an encrypted connection, and the line that
// mends it; "" for nothing. file is "" where there is none.
func unprotected(c toolkit.Config, file string) (lack, mend string) {
	const (
		certificate = "tls_server_config: {cert_file: server.crt, key_file: server.key}"
		users       = "basic_auth_users: {NAME: 'HASH'}"
		hash        = "`htpasswd -nB NAME` prints NAME:HASH"
	)
	t := &c.TLSConfig
	// RequireAnyClientCert takes a certificate that its owner made, and without an authority of its own the system's vouch for it.
	known := t.ClientAuth == "RequireAndVerifyClientCert" && (t.ClientCAs != "" || t.ClientCAsText != "" || len(t.ClientAllowedSans) > 0)
	known = known || len(c.Users) > 0
	switch {
	case file == "":
		return "nothing asks them who they are (there is no --web-config)", fmt.Sprintf("add `--web-config=FILE` with the lines `%s` and `%s` (%s)", certificate, users, hash)
	case t.IsEnabled() && known:
		return "", ""
	case t.IsEnabled() && t.ClientAuth != "" && t.ClientAuth != "NoClientCert":
		return fmt.Sprintf("%s lets clients in without a certificate of an authority that it names (client_auth_type %s)", file, t.ClientAuth),
			"write in its tls_server_config `client_auth_type: RequireAndVerifyClientCert` and `client_ca_file: FILE`, or add `" + users + "` (" + hash + ")"
	case t.IsEnabled():
		return fmt.Sprintf("%s has TLS but asks nobody who they are", file), fmt.Sprintf("add to it `%s` (%s)", users, hash)
	case known:
		return fmt.Sprintf("%s has users but no TLS, so their passwords cross the network in clear", file), fmt.Sprintf("add to it `%s`", certificate)
	}
	return fmt.Sprintf("%s has neither TLS nor users", file), fmt.Sprintf("add to it `%s` and `%s` (%s)", certificate, users, hash)
}

// readWebConfig reads and checks a file with TLS and authentication settings; "" is none.
func readWebConfig(name string) (c toolkit.Config, err error) {
	if name == "" {
		return c, nil
	}
	if err = toolkit.Validate(name); err == nil {
		var b []byte
		if b, err = os.ReadFile(name); err == nil {
			err = yaml.Unmarshal(b, &c)
		}
	}
	if err != nil {
		return c, fmt.Errorf("web configuration %s: %w", name, configfile.Readable(err, nil))
	}
	c.TLSConfig.SetDirectory(filepath.Dir(name))
	return c, nil
}

// Scheme is http or https.
func (e *Exposure) Scheme() string {
	if c, err := readWebConfig(e.Config); err == nil && c.TLSConfig.IsEnabled() {
		return "https"
	}
	return "http"
}

// Hosts are the names by which the port may be reached: those of --host-name, of the machine and of its certificate.
func (e *Exposure) Hosts(h *host.Host, l net.Listener, machine ...string) web.Hosts {
	return web.Hosts{Names: slices.Concat(e.names, ownNames(h, machine...), certified(e.Config)), Loopback: loopback(l)}
}

// certified are the names in the certificate of a web configuration: browsers take no other page's certificate for them.
func certified(file string) []string {
	c, err := readWebConfig(file)
	if err != nil || !c.TLSConfig.IsEnabled() {
		return nil
	}
	t, err := toolkit.ConfigToTLSConfig(&c.TLSConfig)
	if err != nil {
		return nil
	}
	cert, err := t.GetCertificate(nil)
	if err != nil || cert.Leaf == nil {
		return nil
	}
	return cleanNames(cert.Leaf.DNSNames)
}

// ownNames are the names of this machine: of its kernel and in its files, without asking a server of names.
func ownNames(h *host.Host, machine ...string) (out []string) {
	if name, err := os.Hostname(); err == nil {
		machine = append(machine, name)
	}
	search := words(h, "/etc/resolv.conf")
	hosts := words(h, "/etc/hosts")
	for _, name := range machine {
		short, _, _ := strings.Cut(name, ".")
		out = append(out, name, short)
		for _, line := range search { // resolv.conf(5)
			if line[0] == "search" || line[0] == "domain" {
				for _, domain := range line[1:] {
					out = append(out, short+"."+domain)
				}
			}
		}
		for _, line := range hosts { // hosts(5)
			if slices.ContainsFunc(line[1:], func(alias string) bool { return strings.EqualFold(alias, name) }) {
				out = append(out, line[1:]...)
			}
		}
	}
	return cleanNames(out)
}

// words are the lines of a file, without comments; none where it cannot be read.
func words(h *host.Host, file string) (out [][]string) {
	text, _ := h.ReadString(file)
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if w := strings.Fields(line); len(w) > 1 {
			out = append(out, w)
		}
	}
	return out
}

// cleanNames leaves out what is no name.
func cleanNames(names []string) (out []string) {
	for _, name := range names {
		if c, err := web.CleanHostName(name); err == nil {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Protected refuses requests once the web configuration, which exporter-toolkit reads for each of them, no longer has what it had at the
// start. On loopback, and where the user allowed everybody to read, it lets all pass.
func (e *Exposure) Protected(l net.Listener, next http.Handler, log *slog.Logger) http.Handler {
	if loopback(l) || e.Insecure {
		return next
	}
	judged := locked.New(judgement{good: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j := judged.Lock()
		good := j.judge(e.Config, log)
		judged.Unlock()
		// The file may have lost its TLS between the judgement and the start: then this port has none.
		if !good || r.TLS == nil { // to a stranger, perhaps
			http.Error(w, "the file of --web-config was changed and lets nobody in; the log has the reason", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// judgement is whether a web configuration protected the port when it was last changed.
type judgement struct {
	file fs.FileInfo
	good bool
}

// judge judges the file anew if it was changed, and logs what is wrong with it.
func (j *judgement) judge(name string, log *slog.Logger) bool {
	now, err := os.Stat(name)
	if err == nil && j.file != nil && os.SameFile(now, j.file) && now.Size() == j.file.Size() && now.ModTime().Equal(j.file.ModTime()) {
		return j.good
	}
	var lack, mend string
	if err == nil {
		var c toolkit.Config
		if c, err = readWebConfig(name); err == nil {
			lack, mend = unprotected(c, name)
		}
	}
	was := j.good
	j.file, j.good = now, err == nil && lack == ""
	if was && !j.good {
		if lack != "" {
			err = fmt.Errorf("%s; %s", lack, mend)
		}
		log.Error("the file of --web-config was changed, and until it is mended nobody gets in", "error", contain.OneLine(err))
	}
	return j.good
}
