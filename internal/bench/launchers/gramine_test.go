package launchers

import (
	"testing"

	"gopkg.in/yaml.v3"
)

// TestGramineDebug: whether an enclave is of the debug kind follows from gramine-sgx-sigstruct-view's TOML. Its words for people
// (--verbose), which a field report on Gramine 1.9post quotes, are no answer.
func TestGramineDebug(t *testing.T) {
	data, err := shipped.ReadFile("templates/gramine-sgx.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tm template
	if err := yaml.Unmarshal(data, &tm); err != nil || tm.TEE.Debug == nil {
		t.Fatalf("%+v, %v", tm.TEE, err)
	}
	for text, want := range map[string]string{
		"isv_svn = 0\ndebug_enclave = false\n": "off",
		"isv_svn = 0\ndebug_enclave = true\n":  "on",
		"    debug_enclave: False\n":           "unknown",
		"    debug_enclave: True\n":            "unknown",
		"":                                     "unknown",
	} {
		on, off := tm.TEE.Debug.On.MatchString(text), tm.TEE.Debug.Off.MatchString(text)
		if got := map[[2]bool]string{{true, false}: "on", {false, true}: "off", {false, false}: "unknown"}[[2]bool{on, off}]; got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
