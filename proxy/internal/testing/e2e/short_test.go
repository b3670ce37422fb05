package e2e_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// short lists the tests that go test -short runs: a fast one for each behaviour that only a whole gateway shows. A test
// that -run names runs even if it is not listed.
var short = strings.Fields(`
	TestShortTestsExist

	TestAbsoluteRequestTarget TestInvalidHeaderLines TestPipelinedRequests TestRejectsAmbiguousFraming TestTLSListener
	TestUnknownMembersArePassedOn TestErrorsBeforeUpstream TestRequestsAboveLimit TestPanicEndsOneRequest
	TestInvalidKeys TestKeyHeaders TestClientHeadersAreNotForwarded TestKeyTokensPerMinute

	TestOfficialClientNonStreaming TestOfficialClientStream TestOfficialClientErrors TestOfficialClientCalls
	TestMessagesPassToAnthropic TestMessagesWithServerTools TestInvokeModelOfBedrock
	TestPreviousResponse TestStoredStateBelongsToItsKey TestObjectsOfTheAccount TestResponsesPassThrough TestResponsesUpstream TestResponsesReasoning TestThinkingTokenStaysWithGateway
	TestGeminiPassesToGemini TestGeminiReasoningReturns TestIngressKeys

	TestModels TestDirectNamesAndKeys TestPresetsOnTheWire TestSessionHeadersOfAgents TestRulesRestrictTargets
	TestPolicyTierByTag TestPolicySmallRequests TestFailingRouterKeepsConfiguredOrder TestExplainErrors TestCanaryFolderInUse
	TestFailedAttemptLeavesNothing TestRetriesConnecting TestRetryAfterIsObeyed TestHedgeWins
	TestGatewayAsItsOwnProvider TestWarningsFitIntoHeader

	TestAmbiguousArguments TestEventTimeoutIsPerEvent TestToolCallCutBeforeEnd
	TestFinishWithoutDoneIsComplete TestHeartbeatWhileProviderIsSilent TestRequestAfterStream TestDemoPace

	TestRejectedHeadersAreNotSent TestReloadOfInvalidPlugin TestBundledFilters TestFilterTagsRequest
	TestGoClientMatchesDefaultConfiguration TestDeploymentConfigurationIsValid TestRoutingPoliciesAreValid TestServiceMatchesConfiguration
	TestRecordThenTestThenReplay TestRecordedFaultFails
	TestReloadAppliesToNewRequests TestFailedReloadKeepsConfiguration TestShutdownWaitsForStreams TestNotReadyDuringShutdown
	TestProviderWithoutCredentialIsDisabled TestGatewayRequiresItsJournal

	TestPrincipals TestTokenExpiresInStream TestIdentityDocument

	TestBudgetLowersMaxTokens TestReloadKeepsSpending TestCheapestUsesExpectedCost TestUnpricedModelUnderBudget TestCostOfTruncatedStream TestSequentialClientFindsLimitsFree
	TestLogNamesExceededLimit TestTraceContextIsLoggedAndForwarded TestTargetAndPluginMetrics
`)

// selectShort restricts a run with -short and without -run to the tests of short.
func selectShort() {
	flag.Parse()
	if run := flag.Lookup("test.run"); testing.Short() && run.Value.String() == "" {
		if err := run.Value.Set("^(" + strings.Join(short, "|") + ")$"); err != nil {
			panic(err)
		}
	}
}

// TestShortTestsExist checks that every listed test exists, because -run silently ignores the name of a renamed test.
func TestShortTestsExist(t *testing.T) {
	paths, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			exists[string(m[1])] = true
		}
	}
	for _, name := range short {
		if !exists[name] {
			t.Errorf("short lists %s, which does not exist", name)
		}
	}
}
