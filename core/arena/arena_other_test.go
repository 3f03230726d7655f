//go:build !unix || portable

package arena

import "os"

func duplicate(*os.File) (*os.File, error) { return nil, errNotShared }
