package machine

import (
	"os"
	"strings"
	"testing"
)

// TestProgram reads command lines. The first two were recorded of Gramine 1.9post (gramine-direct, in /opt/gramine): Redis started by
// hand, and by the launcher gramine-direct. Those of gramine-sgx are from its source and were not run.
func TestProgram(t *testing.T) {
	const built = "/opt/gramine/lib/x86_64-linux-gnu/gramine/direct/"
	const direct, sgx = "/usr/lib/x86_64-linux-gnu/gramine/direct/", "/usr/lib/x86_64-linux-gnu/gramine/sgx/"
	for _, c := range []struct{ exe, argv, want string }{
		{built + "libpal.so", built + "loader|" + built + "libpal.so|init|redis-server", "redis-server in Gramine"},
		{built + "libpal.so", built + "loader|" + built + "libpal.so|init|/tmp/teescope-gramine-direct-jobs2764139201/1/redis-server", "redis-server in Gramine"},
		{direct + "libpal.so", "/proc/self/exe|init|redis-server|--port|6379", "redis-server in Gramine"},
		{direct + "libpal.so", direct + "loader|" + direct + "libpal.so|init|/tmp/job/1/job|secret", "job in Gramine"},
		{sgx + "loader", sgx + "loader|" + sgx + "libpal.so|init|java", "java in Gramine"},
		{"", direct + "loader|init|memcached", "memcached in Gramine"},
		{direct + "libpal.so", direct + "loader|child|7|3", direct + "loader"}, // a forked process of the enclave's program
		{direct + "libpal.so", direct + "loader|init", direct + "loader"},
		{"/sbin/init", "/sbin/init|init|x", "/sbin/init"},
		{"/usr/bin/redis-server", "/usr/bin/redis-server|init|x", "/usr/bin/redis-server"},
		{"/usr/lib/jvm/bin/java", "java|-Xmx1g|-cp|/a:/b|-Dp=secret|org.example.Main|--password|x", "java org.example.Main"},
		{"", "/usr/bin/java|--add-opens|java.base/java.lang=ALL-UNNAMED|-jar|/opt/app/server.jar|x", "java server.jar"},
		{"", "java|--module-path|/m|-m|com.example/com.example.Main", "java com.example.Main"},
		{"", "java|--module=com.example/com.example.Main|x", "java com.example.Main"},
		{"", "java|@/opt/args", "java"},
		{"", "java|-version", "java"},
		{"", "/usr/bin/python3.11|-u|-W|ignore|/opt/app/serve.py|--token=x", "python3.11 serve.py"},
		{"", "python3|-m|http.server|8000", "python3 http.server"},
		{"", "python3|-c|import secrets", "python3"},
		{"", "/usr/bin/perl|-w|/usr/bin/job.pl", "perl job.pl"},
		{"", "node|--require|/x.js|/srv/index.js", "node index.js"},
		{"", "/bin/bash|-e|/root/run.sh|secret", "bash run.sh"},
		{"", "bash|-lc|curl -u name:secret", "bash"},
		{"", "sh|-c|echo secret", "sh"},
		{"", "-bash", "-bash"},
		{"", "bash|-euo|pipefail|/root/run.sh|secret", "bash run.sh"},
		{"", "bash|-euxo|pipefail|-c|echo secret|secret", "bash"},
		{"", "bash|-oc|pipefail|echo secret|secret", "bash"},
		{"", "bash|+x|--|-run.sh|secret", "bash -run.sh"},
		{"", "python3|-mhttp.server|secret", "python3 http.server"},
		{"", "python3|-Im|http.server|secret", "python3 http.server"},
		{"", "python3|-cimport x|secret", "python3"},
		{"", "python3|-Wignore|-Xdev|app.py|secret", "python3 app.py"},
		{"", "perl|-C|/usr/bin/job.pl|secret", "perl job.pl"},
		{"", "perl|-lane|print q(secret)|secret", "perl"},
		{"", "perl|-nleprint|secret", "perl"},
		{"", "perl|-MTime::HiRes|-I|/x|job.pl|secret", "perl job.pl"},
		{"", "ruby|-rset|job.rb|secret", "ruby job.rb"},
		{"", "node|--eval=1|secret", "node"},
		{"", "node|-pe|1|secret", "node"},
		{"", "node|--env-file|.env|index.js|secret", "node index.js"},
		{"", "java|-server|-ea|org.example.Main|secret", "java org.example.Main"},
		{"", "java|--class-path=/a|-ea|org.example.Main|secret", "java org.example.Main"},
		{"", "|secret", ""},
		{"", "python3||secret", "python3"},
		{"", "python3|-\xff\xfe|app.py|secret", "python3 app.py"},
		{"", "/usr/sbin/nginx|-g|daemon off;", "/usr/sbin/nginx"},
		{"", "server: user secret", "server:"},
		{"", "", ""},
	} {
		if got := Program(c.exe, []byte(strings.ReplaceAll(c.argv, "|", "\x00")+"\x00")); got != c.want {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
		for _, secret := range []string{"secret", "token", "password", "6379"} {
			if got := Program(c.exe, []byte(strings.ReplaceAll(c.argv, "|", "\x00"))); strings.Contains(got, secret) {
				t.Errorf("%q: %q shows an argument", c.argv, got)
			}
		}
	}
	own, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	if got := Program("", own); !strings.HasSuffix(got, ".test") {
		t.Errorf("this test is %q", got)
	}
}

// TestHomeIn: a program in Gramine has a name below its unit, of characters that a unit may have.
func TestHomeIn(t *testing.T) {
	const loader = "/usr/lib/gramine/direct/loader\x00/usr/lib/gramine/direct/libpal.so\x00init\x00"
	for _, c := range []struct{ home, argv, want string }{
		{"", loader + "redis-server\x00secret\x00", "Gramine (redis-server)"},
		{"redis.service", loader + "/tmp/job/1/redis-server\x00", "redis.service/Gramine (redis-server)"},
		{"", loader + "a \"b\n\x00", "Gramine (a__b_)"},
		{"", loader + strings.Repeat("x", 70), "Gramine (" + strings.Repeat("x", 64) + ")"},
		{"redis.service", "redis-server\x00init\x00x\x00", "redis.service"},
		{"", "", ""},
	} {
		if got := HomeIn(c.home, "", []byte(c.argv)); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.argv, c.home, got, c.want)
		}
	}
}

// TestProgramMutated: no damage panics.
func TestProgramMutated(t *testing.T) {
	for _, line := range []string{"loader\x00init\x00redis-server\x00", "java\x00-cp\x00/a\x00Main\x00", "python3\x00-m\x00http.server\x00"} {
		for i := range len(line) {
			for _, b := range []byte{0, ' ', '-', '/', 'x', 0xff} {
				damaged := []byte(line)
				damaged[i] = b
				Program("/gramine/loader", damaged)
				Program("", damaged[:i])
			}
		}
	}
}
