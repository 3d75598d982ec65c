// An ordinary program: arguments, environment, clock, random bytes, files, exit code.
//
//	hello [EXIT_CODE|panic] [DIRECTORY]
//
// hello.c, hello.rs and hello.go print the same lines. DIRECTORY defaults to "/".
//
// It prints without the package fmt, which would add a tenth to the module.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

func main() {
	for at, argument := range os.Args {
		line("argument "+strconv.Itoa(at), argument)
	}
	variable, found := os.LookupEnv("SINEW_GUEST")
	if !found {
		variable = "not set"
	}
	line("SINEW_GUEST", variable)

	start := time.Now()
	line("clock", strconv.FormatInt(start.UnixMilli(), 10))
	line("monotonic", choose(time.Since(start) >= 0, "yes", "no"))
	random := make([]byte, 8)
	rand.Read(random)
	line("random", hex.EncodeToString(random))

	directory := argument(2, "/")
	text, err := os.ReadFile(path.Join(directory, "in.txt"))
	line("in.txt", choose(err == nil, strings.TrimRight(string(text), "\n"), "failed"))
	err = os.WriteFile(path.Join(directory, "out.txt"), []byte("written by hello\n"), 0o644)
	line("out.txt", choose(err == nil, "written", "failed"))
	entries, err := os.ReadDir(directory) // sorted by name
	if err != nil {
		line("entries", "failed")
	}
	for _, entry := range entries {
		line("entry", entry.Name())
	}

	if argument(1, "") == "panic" {
		panic("asked to")
	}
	os.Stderr.WriteString("hello ends\n")
	code, _ := strconv.Atoi(argument(1, "0"))
	os.Exit(code)
}

func line(name, value string) {
	os.Stdout.WriteString(name + ": " + value + "\n")
}

// argument returns the argument at an index, or a default if there are fewer.
func argument(at int, otherwise string) string {
	if at < len(os.Args) {
		return os.Args[at]
	}
	return otherwise
}

func choose(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}
