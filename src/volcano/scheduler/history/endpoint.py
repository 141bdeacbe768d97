"""HTTP endpoint of the ring buffer of cycles."""

import msgspec

from volcano.base.http.messages import Request, Response
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.history.queries import QueryError, answer

PATH = "/debug/cycles"  # of the scheduler
API_SERVER_PATH = "/debug/scheduler/cycles"  # of the API server of `volcano up`
JSON = {"Content-Type": "application/json"}


def respond(history: CycleHistory, request: Request) -> Response:
    """Answers a query; one that cannot be answered with status 400 and the reason."""
    query = {name: values[0] for name, values in request.query.items() if values}
    try:
        return Response(200, dict(JSON), msgspec.json.encode(answer(history, query)))
    except QueryError as error:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "BadRequest",
            "code": 400,
        }
        return Response(400, dict(JSON), msgspec.json.encode({**status, "message": str(error)}))
