// Command s3server is an S3 server for tests: Versity's S3 gateway over a
// folder, with one account.
//
//	s3server ADDRESS FOLDER ACCESS_KEY SECRET_KEY
//
// Each folder in FOLDER is a bucket. It has a module of its own, so that what
// the gateway brings stays out of the product's.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: s3server ADDRESS FOLDER ACCESS_KEY SECRET_KEY")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "s3server:", err)
		os.Exit(1)
	}
}

// serve keeps the attributes of objects in files of their own: not every file
// system of a test machine has extended attributes.
func serve(ctx context.Context, address, dir, access, secret string) error {
	data, attributes := filepath.Join(dir, "data"), filepath.Join(dir, "attributes")
	for _, d := range []string{data, attributes} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	store, err := meta.NewSideCar(attributes)
	if err != nil {
		return err
	}
	backend, err := posix.New(data, store, posix.PosixOpts{SideCarDir: attributes})
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess: access, RootUserSecret: secret, Region: "us-east-1", Ports: []string{address}, Quiet: true, IAMCacheDisable: true,
		MaxConnections: 256, MaxRequests: 256, MultipartMaxParts: 10_000,
	})
}
