package spans

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// FromEnvironment returns a Recorder as OpenTelemetry's variables say, which docs/tracing.md
// lists; nil if they name no exporter. Spans are exported in the background, with OTLP over HTTP;
// failures to export are logged. version is the server's.
func FromEnvironment(ctx context.Context, version string, log *slog.Logger) (*Recorder, error) {
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); {
	case exporter != "" && exporter != "otlp" && exporter != "none":
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; use otlp or none", exporter)
	case os.Getenv("OTEL_SDK_DISABLED") == "true", exporter == "none", exporter == "" && variable("ENDPOINT") == "":
		return nil, nil
	}
	if protocol := variable("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; use http/protobuf, on port 4318 of most collectors", protocol)
	}
	sampler, err := samplerOf(cmp.Or(os.Getenv("OTEL_TRACES_SAMPLER"), "parentbased_always_on"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	if err != nil {
		return nil, err
	}
	to, err := newCollector()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("export spans: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "greenroom"), attribute.String("service.version", version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans were not exported", "error", err) }))
	return New(sampler, sdk.WithBatcher(exporter), sdk.WithResource(about)), nil
}

// samplerOf returns the sampler that OTEL_TRACES_SAMPLER names, with its argument.
func samplerOf(name, arg string) (sdk.Sampler, error) {
	ratio := 1.0
	if arg != "" {
		var err error
		if ratio, err = strconv.ParseFloat(arg, 64); err != nil || ratio < 0 || ratio > 1 {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q; give a number from 0 to 1", arg)
		}
	}
	switch name {
	case "always_on":
		return sdk.AlwaysSample(), nil
	case "always_off":
		return sdk.NeverSample(), nil
	case "traceidratio":
		return sdk.TraceIDRatioBased(ratio), nil
	case "parentbased_always_on":
		return sdk.ParentBased(sdk.AlwaysSample()), nil
	case "parentbased_always_off":
		return sdk.ParentBased(sdk.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdk.ParentBased(sdk.TraceIDRatioBased(ratio)), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q; use always_on, always_off or traceidratio, alone or after parentbased_", name)
}
