// SPDX-License-Identifier: Apache-2.0

// look is the only program in the containers of the tests.
//
//	look FOLDER    what a process sees there, as JSON: files by path, and how an attempt to write ended
//	look           waits until it is told to stop
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

type seen struct {
	Files map[string]string `json:"files"` // the SHA-256 of a file, "-> TARGET" of a link
	Write string            `json:"write"` // the error, or "" where writing is possible
}

func main() {
	if len(os.Args) == 1 {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
		<-stop
		return
	}
	root := os.Args[1]
	found := seen{Files: map[string]string{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == root {
			return nil // CRI-O does not even make the folder if nothing is mounted into it
		}
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(root, path)
		found.Files[name], err = content(path, entry)
		return err
	})
	if err == nil {
		if err := os.WriteFile(filepath.Join(root, "written-by-look"), nil, 0o644); err != nil {
			found.Write = err.Error()
		}
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func content(path string, entry fs.DirEntry) (string, error) {
	if entry.Type()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		return "-> " + target, err
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hex.EncodeToString(hash.Sum(nil)), err
}
