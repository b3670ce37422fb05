package openai_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
)

func TestErrorFrame(t *testing.T) {
	e := apierror.Error{Status: 502, Kind: "t", Message: "m\n"}
	const want = `data: {"error":{"message":"m\n","type":"t","param":null,"code":null}}` + "\n\n"
	if got := string(openai.NewWriter().AppendError(nil, &e)); got != want {
		t.Errorf("frame is %s", got)
	}
}
