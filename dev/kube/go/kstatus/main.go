// Command kstatus prints what kstatus computes for the object on standard input: Current, InProgress, Failed, …
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(read()); err != nil {
		fail(err)
	}
	result, err := status.Compute(object)
	if err != nil {
		fail(err)
	}
	fmt.Println(result.Status)
}

func read() []byte {
	var object json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&object); err != nil {
		fail(err)
	}
	return object
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
