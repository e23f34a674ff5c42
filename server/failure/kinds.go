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

// Answer is where a kind lands: the Connect code, and the status of the plain
// HTTP form. Connect's own statuses follow from the code alone.
type Answer struct {
	Code   connect.Code
	Status int
}

// AnswerOf is the map from kinds to codes; docs/errors.md shows it, and a test
// keeps the two the same. An unknown kind is internal.
//
// A limit that the same request would meet again is invalid_argument or
// failed_precondition, never resource_exhausted: clients back off and repeat
// that one.
func AnswerOf(kind actor.Kind) Answer {
	switch kind {
	case KindInvalidArgument:
		return Answer{connect.CodeInvalidArgument, http.StatusBadRequest}
	case KindInvalidModule:
		return Answer{connect.CodeInvalidArgument, http.StatusUnprocessableEntity}
	case actor.ErrPayloadTooLarge.Kind(), actor.ErrModuleTooLarge.Kind():
		return Answer{connect.CodeInvalidArgument, http.StatusRequestEntityTooLarge}
	case KindBodyTimeout:
		return Answer{connect.CodeDeadlineExceeded, http.StatusRequestTimeout}
	case actor.ErrTypeNotFound.Kind(), actor.ErrMethodNotFound.Kind(), actor.ErrActorNotFound.Kind(),
		actor.ErrModuleNotFound.Kind(), actor.ErrNoGeneration.Kind(), actor.ErrSettingNotFound.Kind(), actor.ErrHostGone.Kind(),
		actor.ErrReminderNotFound.Kind(), actor.ErrTimerNotFound.Kind(), actor.ErrDeadLetterNotFound.Kind(), KindServiceNotFound,
		actor.ErrPassedAway.Kind():
		return Answer{connect.CodeNotFound, http.StatusNotFound}
	case KindPathNotFound:
		return Answer{connect.CodeUnimplemented, http.StatusNotFound}
	case KindMethodRefused:
		return Answer{connect.CodeUnimplemented, http.StatusMethodNotAllowed}
	case KindNotImplemented:
		return Answer{connect.CodeUnimplemented, http.StatusNotImplemented}
	case actor.ErrNotReadOnly.Kind():
		return Answer{connect.CodeFailedPrecondition, http.StatusMethodNotAllowed}
	case kindStateTooLarge, kindOutOfFuel, actor.ErrSchemaNewer.Kind(), actor.ErrSchemaRollback.Kind(), actor.ErrModuleInUse.Kind(),
		actor.ErrModulesFull.Kind(), actor.ErrNoSecretsKey.Kind(), actor.ErrChainTooLarge.Kind(), actor.ErrNotAtomic.Kind(), actor.ErrHostTooOld.Kind(), actor.ErrNotAccepted.Kind():
		return Answer{connect.CodeFailedPrecondition, http.StatusConflict}
	case actor.ErrKeyReused.Kind():
		return Answer{connect.CodeFailedPrecondition, http.StatusUnprocessableEntity}
	case actor.ErrServiceTaken.Kind(), actor.ErrDeadlock.Kind(), actor.ErrStale.Kind(), actor.ErrLeft.Kind(), actor.ErrKeyExists.Kind(), actor.ErrDeployConflict.Kind(),
		actor.ErrFiringTaken.Kind(), actor.ErrMessageOrder.Kind(), actor.ErrCallCancelled.Kind():
		return Answer{connect.CodeAborted, http.StatusConflict}
	case actor.ErrMailboxFull.Kind(), actor.ErrHostFull.Kind(), actor.ErrInboxFull.Kind(), actor.ErrQuotaExceeded.Kind(), actor.ErrRateLimited.Kind(), KindStreamFull:
		return Answer{connect.CodeResourceExhausted, http.StatusTooManyRequests}
	case actor.ErrOverloaded.Kind(), actor.ErrStopping.Kind(), actor.ErrUnavailable.Kind(), actor.ErrNoTokens.Kind(),
		actor.ErrNoOwner.Kind(), actor.ErrNotOwner.Kind(), actor.ErrTypePaused.Kind(), actor.ErrNotAcceptedYet.Kind(),
		actor.ErrStoodStill.Kind():
		return Answer{connect.CodeUnavailable, http.StatusServiceUnavailable}
	case actor.ErrPositionGone.Kind():
		return Answer{connect.CodeOutOfRange, http.StatusGone}
	case actor.ErrDeadline.Kind():
		return Answer{connect.CodeDeadlineExceeded, http.StatusGatewayTimeout}
	case actor.ErrCanceled.Kind():
		return Answer{connect.CodeCanceled, StatusClientClosedRequest}
	case actor.ErrAmbiguous.Kind():
		return Answer{connect.CodeUnknown, http.StatusInternalServerError}
	case actor.ErrStateDamaged.Kind(), actor.ErrModuleDamaged.Kind():
		return Answer{connect.CodeDataLoss, http.StatusInternalServerError}
	case KindUnauthenticated:
		return Answer{connect.CodeUnauthenticated, http.StatusUnauthorized}
	case KindPermissionDenied, KindOriginRefused, KindHostRefused, actor.ErrMethodPrivate.Kind():
		return Answer{connect.CodePermissionDenied, http.StatusForbidden}
	default: // the kinds of traps, and kindInternal
		return Answer{connect.CodeInternal, http.StatusInternalServerError}
	}
}

// StatusClientClosedRequest has no name in net/http. Connect answers it for canceled, too,
// and requests whose client left before there was an answer are counted under it.
const StatusClientClosedRequest = 499

// guestAnswer places an error that a guest returned on purpose, by the status
// that it chose. The HTTP statuses are those of the Connect protocol.
func guestAnswer(s actor.Status) Answer {
	code := connect.Code(s)
	if code < connect.CodeCanceled || code > connect.CodeUnauthenticated {
		code = connect.CodeUnknown
	}
	switch code {
	case connect.CodeCanceled:
		return Answer{code, StatusClientClosedRequest}
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return Answer{code, http.StatusBadRequest}
	case connect.CodeDeadlineExceeded:
		return Answer{code, http.StatusGatewayTimeout}
	case connect.CodeNotFound:
		return Answer{code, http.StatusNotFound}
	case connect.CodeAlreadyExists, connect.CodeAborted:
		return Answer{code, http.StatusConflict}
	case connect.CodePermissionDenied:
		return Answer{code, http.StatusForbidden}
	case connect.CodeResourceExhausted:
		return Answer{code, http.StatusTooManyRequests}
	case connect.CodeUnimplemented:
		return Answer{code, http.StatusNotImplemented}
	case connect.CodeUnavailable:
		return Answer{code, http.StatusServiceUnavailable}
	case connect.CodeUnauthenticated:
		return Answer{code, http.StatusUnauthorized}
	default:
		return Answer{code, http.StatusInternalServerError}
	}
}
