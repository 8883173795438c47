// A web server of a folder's files, and a client that gets one by 20 connections at once: for tests/run/languages/languages.sh.
//
//	run-languages serve FOLDER PORT
//	run-languages get URL FILE
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	if os.Args[1] == "serve" {
		fail(http.ListenAndServe(":"+os.Args[3], http.FileServer(http.Dir(os.Args[2]))))
	}
	wanted, err := os.ReadFile(os.Args[3])
	fail(err)
	results := make(chan error)
	for n := 0; n < 20; n++ {
		go func() { results <- get(os.Args[2], wanted) }()
	}
	for n := 0; n < 20; n++ {
		fail(<-results)
	}
}

func get(url string, wanted []byte) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err == nil && !bytes.Equal(got, wanted) {
		err = fmt.Errorf("%d other bytes", len(got))
	}
	return err
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
