package failure

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
)

// The kinds that are not conditions of package actor.
const (
	KindInvalidArgument  actor.Kind = "invalid_argument"
	KindInvalidModule    actor.Kind = "invalid_module"
	kindStateTooLarge    actor.Kind = "state_too_large"
	kindOutOfFuel        actor.Kind = "out_of_fuel"
	KindGuestError       actor.Kind = "guest_error"
	KindUnauthenticated  actor.Kind = "unauthenticated"
	KindPermissionDenied actor.Kind = "permission_denied"
	KindOriginRefused    actor.Kind = "origin_refused"
	KindHostRefused      actor.Kind = "host_refused"
	KindPathNotFound     actor.Kind = "path_not_found"
	KindServiceNotFound  actor.Kind = "service_not_found"
	KindMethodRefused    actor.Kind = "http_method_refused"
	KindBodyTimeout      actor.Kind = "body_timeout"
	KindNotImplemented   actor.Kind = "not_implemented"
	KindStreamFull       actor.Kind = "stream_full"
	KindInternal         actor.Kind = "internal"
)

// answer is where a kind lands: the Connect code, and the status of the plain
// HTTP form. Connect's own statuses follow from the code alone.
type answer struct {
	Code   connect.Code
	Status int
}

// AnswerOf is the map from kinds to codes; docs/errors.md shows it, and a test
// keeps the two the same. An unknown kind is internal.
//
// A limit that the same request would meet again is invalid_argument or
// failed_precondition, never resource_exhausted: clients back off and repeat
// that one.
func AnswerOf(kind actor.Kind) answer {
	switch kind {
	case KindInvalidArgument:
		return answer{connect.CodeInvalidArgument, http.StatusBadRequest}
	case KindInvalidModule:
		return answer{connect.CodeInvalidArgument, http.StatusUnprocessableEntity}
	case actor.ErrPayloadTooLarge.Kind(), actor.ErrModuleTooLarge.Kind():
		return answer{connect.CodeInvalidArgument, http.StatusRequestEntityTooLarge}
	case KindBodyTimeout:
		return answer{connect.CodeDeadlineExceeded, http.StatusRequestTimeout}
	case actor.ErrTypeNotFound.Kind(), actor.ErrMethodNotFound.Kind(), actor.ErrActorNotFound.Kind(),
		actor.ErrModuleNotFound.Kind(), actor.ErrNoGeneration.Kind(), actor.ErrSettingNotFound.Kind(), actor.ErrHostGone.Kind(),
		actor.ErrReminderNotFound.Kind(), actor.ErrTimerNotFound.Kind(), actor.ErrDeadLetterNotFound.Kind(), KindServiceNotFound:
		return answer{connect.CodeNotFound, http.StatusNotFound}
	case KindPathNotFound:
		return answer{connect.CodeUnimplemented, http.StatusNotFound}
	case KindMethodRefused:
		return answer{connect.CodeUnimplemented, http.StatusMethodNotAllowed}
	case KindNotImplemented:
		return answer{connect.CodeUnimplemented, http.StatusNotImplemented}
	case actor.ErrNotReadOnly.Kind():
		return answer{connect.CodeFailedPrecondition, http.StatusMethodNotAllowed}
	case kindStateTooLarge, kindOutOfFuel, actor.ErrSchemaNewer.Kind(), actor.ErrSchemaRollback.Kind(), actor.ErrModuleInUse.Kind(),
		actor.ErrNoSecretsKey.Kind():
		return answer{connect.CodeFailedPrecondition, http.StatusConflict}
	case actor.ErrKeyReused.Kind():
		return answer{connect.CodeFailedPrecondition, http.StatusUnprocessableEntity}
	case actor.ErrStale.Kind(), actor.ErrLeft.Kind(), actor.ErrKeyExists.Kind(), actor.ErrDeployConflict.Kind(),
		actor.ErrFiringTaken.Kind():
		return answer{connect.CodeAborted, http.StatusConflict}
	case actor.ErrMailboxFull.Kind(), actor.ErrHostFull.Kind(), KindStreamFull:
		return answer{connect.CodeResourceExhausted, http.StatusTooManyRequests}
	case actor.ErrOverloaded.Kind(), actor.ErrStopping.Kind(), actor.ErrUnavailable.Kind(), actor.ErrNoTokens.Kind(),
		actor.ErrNoOwner.Kind(), actor.ErrNotOwner.Kind():
		return answer{connect.CodeUnavailable, http.StatusServiceUnavailable}
	case actor.ErrDeadline.Kind():
		return answer{connect.CodeDeadlineExceeded, http.StatusGatewayTimeout}
	case actor.ErrCanceled.Kind():
		return answer{connect.CodeCanceled, StatusClientClosedRequest}
	case actor.ErrAmbiguous.Kind():
		return answer{connect.CodeUnknown, http.StatusInternalServerError}
	case actor.ErrStateDamaged.Kind(), actor.ErrModuleDamaged.Kind():
		return answer{connect.CodeDataLoss, http.StatusInternalServerError}
	case KindUnauthenticated:
		return answer{connect.CodeUnauthenticated, http.StatusUnauthorized}
	case KindPermissionDenied, KindOriginRefused, KindHostRefused:
		return answer{connect.CodePermissionDenied, http.StatusForbidden}
	default: // the kinds of traps, and kindInternal
		return answer{connect.CodeInternal, http.StatusInternalServerError}
	}
}

// StatusClientClosedRequest has no name in net/http. Connect answers it for canceled, too,
// and requests whose client left before there was an answer are counted under it.
const StatusClientClosedRequest = 499

// guestAnswer places an error that a guest returned on purpose, by the status
// that it chose. The HTTP statuses are those of the Connect protocol.
func guestAnswer(s actor.Status) answer {
	code := connect.Code(s)
	if code < connect.CodeCanceled || code > connect.CodeUnauthenticated {
		code = connect.CodeUnknown
	}
	switch code {
	case connect.CodeCanceled:
		return answer{code, StatusClientClosedRequest}
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return answer{code, http.StatusBadRequest}
	case connect.CodeDeadlineExceeded:
		return answer{code, http.StatusGatewayTimeout}
	case connect.CodeNotFound:
		return answer{code, http.StatusNotFound}
	case connect.CodeAlreadyExists, connect.CodeAborted:
		return answer{code, http.StatusConflict}
	case connect.CodePermissionDenied:
		return answer{code, http.StatusForbidden}
	case connect.CodeResourceExhausted:
		return answer{code, http.StatusTooManyRequests}
	case connect.CodeUnimplemented:
		return answer{code, http.StatusNotImplemented}
	case connect.CodeUnavailable:
		return answer{code, http.StatusServiceUnavailable}
	case connect.CodeUnauthenticated:
		return answer{code, http.StatusUnauthorized}
	default:
		return answer{code, http.StatusInternalServerError}
	}
}
