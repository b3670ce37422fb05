package json_test

import (
	"fmt"

	"github.com/sluice-gateway/sluice/sdk/json"
)

func ExampleReader() {
	var r json.Reader
	r.Reset([]byte(`{"type":"delta","index":2,"delta":{"text":"Hello\nworld"},"padding":[1,2,3]}`))
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "index":
			index, _ := r.Int()
			fmt.Println("index", index)
		case "delta":
			for o := r.Object(); o.Next(); {
				fmt.Printf("%s %s\n", r.Name(), r.Inside())
			}
		}
	}
	fmt.Println(r.End())
	// Output:
	// index 2
	// text Hello\nworld
	// <nil>
}

func ExampleWriter() {
	var w json.Writer
	w.Object()
	w.Name("model")
	w.Text([]byte("a \"b\""))
	w.Name("stop")
	w.Array()
	w.Int(1)
	w.Bool(true)
	w.EndArray()
	w.Name("tools")
	w.Raw([]byte(`[{"name":"f"}]`))
	w.EndObject()
	fmt.Printf("%s\n", w.Buf)
	// Output: {"model":"a \"b\"","stop":[1,true],"tools":[{"name":"f"}]}
}
