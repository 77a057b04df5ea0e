package config

import (
	"fmt"
	"strconv"
	"strings"

	"mercator/pkg/canon"
	"mercator/pkg/fault"
)

// HostConnectionsMax is how many connections at a time a host may be allowed.
const HostConnectionsMax = 64

// exampleHost stands in hints.
const exampleHost = "www.example.org"

// HostConnections reads members HOST=N of politeness.host_connections: how many connections at a time a host may have. A number alone
// would be that of all hosts, whose owners nobody asked, and so it may only be 1.
func HostConnections(members []string) (map[string]int, error) {
	hosts := map[string]int{}
	for _, m := range members {
		name, number, named := cut(m)
		n, err := strconv.Atoi(number)
		switch {
		case !named && number == "1": // as it is
			continue
		case !named && err == nil:
			return nil, refused(m, "HOST=N: hosts that you do not name have one connection", number)
		case !named || name == "":
			return nil, refused(m, fmt.Sprintf("HOST=N, N of 1 to %d", HostConnectionsMax), "8")
		case err != nil || n < 1 || n > HostConnectionsMax:
			return nil, refused(m, fmt.Sprintf("1 to %d connections to a host", HostConnectionsMax), "8")
		}
		url, host, err := canon.Options{}.URL("http://" + name + "/")
		if err != nil || url != "http://"+host+"/" || strings.ContainsAny(name, `*%@/\?# `) {
			return nil, refused(m, "the name of a host before =, with its port if that is not the scheme's own", "8")
		}
		if before, twice := hosts[host]; twice && before != n {
			return nil, refused(m, fmt.Sprintf("one number for %s, which has %d", host, before), "8")
		}
		hosts[host] = n
	}
	return hosts, nil
}

// cut splits HOST=N; what has no = is a number.
func cut(member string) (host, number string, named bool) {
	if i := strings.LastIndexByte(member, '='); i >= 0 {
		return member[:i], member[i+1:], true
	}
	return "", member, false
}

func refused(member, want, number string) error {
	if n, err := strconv.Atoi(number); err != nil || n > HostConnectionsMax {
		number = "8"
	}
	return &fault.Error{Class: fault.Usage, Found: strconv.Quote(member), Want: want, Hint: exampleHost + "=" + number + " allows a host " + number + " connections"}
}
