//go:build unix && !portable

package index

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// serverUser makes a folder that of a user who may run PostgreSQL, which root may not.
func serverUser(dir string) (*syscall.SysProcAttr, bool) {
	if os.Getuid() != 0 {
		return nil, true
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.Atoi(u.Uid)
		gid, errG := strconv.Atoi(u.Gid)
		if errU != nil || errG != nil || os.Chown(dir, uid, gid) != nil {
			continue
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, true
	}
	return nil, false
}
