package machine

import (
	"path"
	"regexp"
	"strings"
)

// HomeOf returns the most specific name for where a process runs, by the content of its cgroup file: its container, or
// the innermost service unit; "" for others. A scope is left out, as its name can hold a process id. So can the instance
// of a unit that is made for an event, such as a connection: one with several numbers is not said.
func HomeOf(groups string) string {
	group, container := PlaceIn(groups)
	if container != "" {
		return "container " + container[:min(12, len(container))]
	}
	for ; group != "" && group != "/" && group != "."; group = path.Dir(group) {
		unit := path.Base(group)
		if !serviceUnit.MatchString(unit) {
			continue
		}
		name, instance, _ := strings.Cut(unit, "@")
		if len(numbers.FindAllString(instance, 2)) > 1 {
			return name + "@.service"
		}
		return unit
	}
	return ""
}

// serviceUnit is what systemd.unit(5) allows as the name of a service.
var (
	serviceUnit = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]{1,100}\.service$`)
	numbers     = regexp.MustCompile(`[0-9]+`)
)

// PlaceIn is the control group of a process, by the content of its cgroup file, and the
// container that it stands for. Of several hierarchies one that knows the container counts,
// and then the longest path, which says most.
func PlaceIn(groups string) (group, container string) {
	for _, m := range ParseMemberships(groups) {
		name := InContainer(m.Path)
		if name != "" && container == "" || (name != "") == (container != "") && len(m.Path) > len(group) {
			group, container = m.Path, name
		}
	}
	return group, container
}
