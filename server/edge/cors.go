package edge

import (
	"net/http"

	connectcors "connectrpc.com/cors"
	"github.com/rs/cors"
)

func newCORS(c Config) *cors.Cors {
	if len(c.AllowedOrigins) == 0 {
		return nil // to rs/cors no origin means every origin
	}
	return cors.New(cors.Options{
		AllowedOrigins: c.AllowedOrigins,
		AllowedMethods: append(connectcors.AllowedMethods(), http.MethodPut, http.MethodDelete),
		AllowedHeaders: append(connectcors.AllowedHeaders(), "Authorization", HeaderConsistency, HeaderActor, HeaderApp, HeaderEvents, HeaderIdempotencyKey, headerTraceparent, headerTracestate),
		ExposedHeaders: append(connectcors.ExposedHeaders(), HeaderVersion, HeaderPosition, headerFuel, headerHost, HeaderRequestID, "Retry-After"),
		// Chrome asks before a public page may call a private address.
		AllowPrivateNetwork: true,
		MaxAge:              7200, // seconds; the longest that browsers keep it
	})
}
