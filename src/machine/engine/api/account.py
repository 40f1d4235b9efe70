"""The account side of Tinker's API: who the key belongs to, and what an engine of one's own has no use for.

An engine has one user, who is the owner of the key. The SDK exchanges the key for a short-lived token, whose claims
are what `tinker auth whoami` shows. Billing, audit and the like are refused by name: there is nothing to tell.
"""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from machine.engine.api.tokens import API, Tokens
from machine.engine.api.web import Endpoint, post
from machine.engine.faults import Fault

TOKEN_SECONDS = 3600
"""How long an exchanged token is good; the SDK renews it at half of that."""
USER, ORGANIZATION = "local", "this-machine"


async def token(request: Request) -> Response:
    """A token for the key: what the SDK sends with every other request."""
    tokens: Tokens = request.app.state.tokens
    claims = {"sub": f"tml:organization_user:{USER}", "org_id": ORGANIZATION, "email": ""}
    return JSONResponse({"jwt": tokens.sign(API, TOKEN_SECONDS, **claims)})


async def own_key(request: Request) -> Response:
    """What `tinker auth login` shows of a key before it stores it."""
    details = {"org_details": {"name": ORGANIZATION}, "user_details": {"email": USER}}
    facts = {"key_id": 1, "name": "machine-engine", "note": "the key of an engine on this machine", "details": details}
    return JSONResponse(facts)


def _refused(reason: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        raise Fault(reason)

    return endpoint


_BILLING = "billing: an engine of one's own bills nothing and keeps no usage records"
_PROJECTS = "project_id: this engine has no projects"
_SWITCHED_OFF = "client/config switches this off; use the SDK as it is"

routes = [
    post("auth/token", token),
    Route("/api/v1/auth/apikey/me", own_key),
    Route("/api/v1/auth/apikey/me", _refused("the engine's key cannot be deleted through its API"), methods=["DELETE"]),
    Route("/api/v1/audit", _refused("audit: this engine keeps no audit log")),
    Route("/api/v1/billing/usage/{rest:path}", _refused(_BILLING)),
    Route("/api/v1/sessions/{session}/project", _refused(_PROJECTS), methods=["PUT"]),
    Route("/api/v1/sessions/{session}/trace_export", _refused("trace_export: this engine records no traces")),
    post("sessions/search", _refused("sessions/search: this engine does not search; list the sessions")),
    post("create_custom_loss", _refused(f"create_custom_loss: {_SWITCHED_OFF} and the loss runs in your process")),
    post("join_sampling_session", _refused(f"join_sampling_session: {_SWITCHED_OFF}")),
    post("retrieve_futures", _refused(f"retrieve_futures: {_SWITCHED_OFF}")),
]
