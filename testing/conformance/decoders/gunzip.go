// Tells of each file what the platform's decoder reads of it: its digest and length.
package main

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"os"
)

func main() {
	for _, name := range os.Args[1:] {
		file, err := os.Open(name)
		if err != nil {
			log.Fatal(err)
		}
		decoder, err := gzip.NewReader(file)
		if err != nil {
			log.Fatal(err)
		}
		text := sha256.New()
		length, err := io.Copy(text, decoder)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%x %d\n", text.Sum(nil), length)
	}
}
