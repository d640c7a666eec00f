package machine

import (
	"regexp"
	"strings"
)

// HomeOf returns the most specific name for where a process runs, by the content of its cgroup file: its container, or
// the innermost service unit; "" for others. What is below a service is named with the outermost one, as whoever may make
// groups there chooses their names: "user@1000.service/my-app.service". A scope is left out, as its name can hold a
// process id. So can the instance of a unit that is made for an event, such as a connection: one with several numbers is
// not said.
func HomeOf(groups string) string {
	group, container := PlaceIn(groups)
	units := servicesIn(group)
	switch {
	case container != "" && len(units) > 0:
		return units[0] + "/container " + shortContainer(container)
	case container != "":
		return "container " + shortContainer(container)
	case len(units) > 1:
		return units[0] + "/" + units[len(units)-1]
	case len(units) == 1:
		return units[0]
	}
	return ""
}

// servicesIn returns the service units in the path of a control group, the outermost one first.
func servicesIn(group string) (out []string) {
	for unit := range strings.SplitSeq(group, "/") {
		if !serviceUnit.MatchString(unit) {
			continue
		}
		if name, instance, _ := strings.Cut(unit, "@"); len(numbers.FindAllString(instance, 2)) > 1 {
			unit = name + "@.service"
		}
		out = append(out, unit)
	}
	return out
}

// shortContainer returns the start of a container's ID, as docker ps shows it, or a name, of whose characters those stay
// that a unit may have.
func shortContainer(container string) string {
	if IsContainerID(container) {
		return container[:12]
	}
	name := notInName.ReplaceAllString(container, "_")
	return name[:min(len(name), 64)]
}

// serviceUnit is what systemd.unit(5) allows as the name of a service; notInName is what no name of a container has.
var (
	serviceUnit = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]{1,100}\.service$`)
	numbers     = regexp.MustCompile(`[0-9]+`)
	notInName   = regexp.MustCompile(`[^A-Za-z0-9:_.-]`)
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
