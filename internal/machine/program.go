package machine

import (
	"path"
	"slices"
	"strings"
)

// Program says what a process runs, from the file it executes (/proc/PID/exe, "" if unknown) and its command line
// (proc_pid_cmdline(5)), in words. A runtime runs a program of its own: "redis-server in Gramine", "java org.example.Main",
// "python3 app.py". Any other process is the program as it was called. Arguments are left out, because they may hold secrets;
// "" is a thread of the kernel.
func Program(exe string, cmdline []byte) string {
	// Arguments follow the first zero byte or, of a process that writes its own title, the first space.
	argv := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	if len(argv) == 1 {
		argv[0], _, _ = strings.Cut(argv[0], " ")
	}
	if name := inGramine(exe, argv); name != "" {
		return name + " in Gramine"
	}
	command := path.Base(argv[0])
	for _, i := range interpreters {
		if slices.Contains(i.names, strings.TrimRight(command, "0123456789.")) {
			if runs := i.runs(argv[1:]); runs != "" {
				return command + " " + runs
			}
		}
	}
	return argv[0]
}

// inGramine is the name of the program that Gramine's loader runs: its command line has "init NAME" (manual pages of
// gramine-direct and gramine-sgx; NAME is the manifest's). "" for any other process.
func inGramine(exe string, argv []string) string {
	if !gramines(exe) && !slices.ContainsFunc(argv[:min(2, len(argv))], gramines) {
		return ""
	}
	// The loader's own words, if it has any, are its path and that of the library.
	if i := slices.Index(argv[:min(4, len(argv))], "init"); i >= 0 && i+1 < len(argv) {
		if name := path.Base(argv[i+1]); name != "." && name != "/" {
			return name
		}
	}
	return ""
}

// HoldsPrograms reports whether a process name may be that of Gramine's loader, whose processes hold different programs: "loader", or "exe"
// after it has executed /proc/self/exe (gramine-direct 1.8 and later).
func HoldsPrograms(process string) bool { return process == "exe" || process == "loader" }

// HomeIn returns where a process of such a name runs: its unit or container as HomeOf names it, and the program that it runs, as
// "redis.service/Gramine (redis-server)". It is home alone for any other process.
func HomeIn(home, exe string, cmdline []byte) string {
	name := inGramine(exe, strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"))
	if name == "" {
		return home
	}
	name = notInName.ReplaceAllString(name, "_")
	if home != "" {
		home += "/"
	}
	return home + "Gramine (" + name[:min(len(name), 64)] + ")"
}

// gramines reports whether a path is that of Gramine's loader, or of the library that it becomes.
func gramines(name string) bool {
	base := path.Base(name)
	return strings.Contains(name, "/gramine/") && (base == "loader" || base == "libpal.so")
}

// interpreter is a program that runs the one that an argument names.
type interpreter struct {
	names []string // without digits at the end
	// takes are the options whose value is the next argument, or the rest of a word of letters.
	takes []string
	// code are options after which there is no program in a file.
	code []string
	// named are options whose value names the program.
	named []string
	// swallow are letters whose value, if any, is the rest of the word.
	swallow string
	// words: an option of one dash is a whole word, not letters.
	words bool
	// apart: a letter's value is never in its own word.
	apart bool
}

var interpreters = []interpreter{
	// java(1): options that are words apart from their values.
	{names: []string{"java"}, words: true, named: []string{"-jar", "-m", "--module"},
		takes: strings.Fields("-cp -classpath --class-path -p --module-path --upgrade-module-path --add-modules --enable-native-access --limit-modules --add-reads --add-exports --add-opens --patch-module --source -d --describe-module")},
	{names: []string{"python", "pypy"}, named: []string{"-m"}, takes: []string{"-W", "-X", "-Q", "--check-hash-based-pycs"}, code: []string{"-c"}},
	{names: []string{"perl"}, takes: []string{"-I"}, code: []string{"-e", "-E"}, swallow: "CDFMVdimx"},
	{names: []string{"ruby"}, takes: []string{"-I", "-r", "-C", "-E", "--encoding"}, code: []string{"-e"}, swallow: "FKTWix"},
	{names: []string{"node", "nodejs"}, words: true, takes: strings.Fields("-r --require --import --loader --experimental-loader -C --conditions --env-file --title"), code: strings.Fields("-e --eval -p --print -pe -ep")},
	{names: []string{"sh", "bash", "dash", "zsh", "ksh"}, apart: true, takes: []string{"-o", "-O", "--rcfile", "--init-file"}, code: []string{"-c", "-s"}},
}

// runs is what the arguments name, without folders; "" if it is no file.
func (i interpreter) runs(args []string) string {
	for n := 0; n < len(args); n++ {
		a := args[n]
		if a == "--" && n+1 < len(args) {
			return i.called(args[n+1])
		}
		if a == "" || a == "-" || a == "--" || strings.HasPrefix(a, "@") {
			return "" // from its input, or java's file of arguments
		}
		if a[0] != '-' && (a[0] != '+' || !i.apart) {
			return i.called(a)
		}
		option, value, has := a, "", false
		switch {
		case strings.HasPrefix(a, "--"):
			option, value, has = strings.Cut(a, "=")
		case !i.words:
			option, value, has = i.letter(a)
		}
		switch {
		case slices.Contains(i.code, option):
			return ""
		case slices.Contains(i.named, option):
			if !has && n+1 < len(args) {
				value = args[n+1]
			}
			return i.called(value)
		case slices.Contains(i.takes, option) && !has:
			n++
		}
	}
	return ""
}

// letter returns the first option of a word of letters, like -euo, that has a value or is code, with the value if it is in the word.
func (i interpreter) letter(word string) (option, value string, has bool) {
	for at := 1; at < len(word); at++ {
		o, rest := "-"+word[at:at+1], word[at+1:]
		switch {
		case strings.Contains(i.swallow, o[1:]):
			return "", "", false
		case i.apart && slices.Contains(i.takes, o):
			if strings.ContainsAny(rest, "cs") { // the other letters are options, too
				return "-c", "", false
			}
			return o, "", false
		case slices.Contains(i.code, o), slices.Contains(i.named, o), slices.Contains(i.takes, o):
			return o, rest, rest != ""
		}
	}
	return "", "", false
}

// called is a program's name without folders. A class of a module is after a slash, too.
func (interpreter) called(name string) string {
	if base := path.Base(name); base != "." && base != "/" {
		return base
	}
	return ""
}
