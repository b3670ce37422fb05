package clientapi_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestErrorBody(t *testing.T) {
	cases := []struct {
		e    apierror.Error
		want string
	}{
		{apierror.Error{Status: 400, Kind: "t"}, `{"error":{"message":"","type":"t","param":null,"code":null}}`},
		{*apierror.Invalid("invalid_value", "messages[0].role", "%q is no role", "x\n"),
			`{"error":{"message":"\"x\\n\" is no role","type":"invalid_request_error","param":"messages[0].role","code":"invalid_value"}}`},
		{apierror.Error{Kind: "t", Message: "m\xff\x01", Code: "c", Provider: "p\"", UpstreamStatus: 529, UpstreamRequestID: "r", Cause: errors.New("secret")},
			`{"error":{"message":"m` + "\uFFFD" + `\u0001","type":"t","param":null,"code":"c","provider":"p\"","upstream_status":529,"upstream_request_id":"r"}}`},
	}
	for _, c := range cases {
		if got := string(clientapi.AppendErrorBody([]byte("> "), &c.e)); got != "> "+c.want {
			t.Errorf(" got %s\nwant %s", got, c.want)
		}
	}
}

func TestErrorBodyMembers(t *testing.T) {
	var body map[string]map[string]any
	e := apierror.Fail(abi.FailServer, "", "", "")
	if err := json.Unmarshal(clientapi.AppendErrorBody(nil, e), &body); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range body["error"] {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"code", "message", "param", "type"}; !reflect.DeepEqual(names, want) || len(body) != 1 {
		t.Errorf("members are %q", names)
	}
}
