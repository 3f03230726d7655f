//go:build !portable

package index

import "golang.org/x/sys/unix"

// networks are file systems that several machines write to, by the number that statfs(2) returns. Sources: Linux'
// include/uapi/linux/magic.h, and the headers of Lustre, BeeGFS and Spectrum Scale, which are not in it.
var networks = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xfe534d42: "SMB2", 0xff534d42: "CIFS", 0x5346414f: "AFS", 0x73757245: "Coda", 0x01021997: "9P",
	0x00c36400: "Ceph", 0x0bd00bd0: "Lustre", 0x19830326: "BeeGFS", 0x47504653: "GPFS",
}

// statfs is replaced in tests.
var statfs = unix.Statfs

// networkFileSystem names the file system of a folder if several machines may write to it; "": none can, or it is not
// known.
func networkFileSystem(dir string) string {
	var s unix.Statfs_t
	if err := statfs(dir, &s); err != nil {
		return ""
	}
	return networks[int64(uint32(s.Type))]
}
