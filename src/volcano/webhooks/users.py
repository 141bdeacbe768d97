"""The annotation that names the user of an object: its creator, unless that is a controller."""

from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import SYSTEM_NAMESPACE, USER
from volcano.webhooks.review import AdmissionRequest, annotations_in

ACCOUNT = "system:serviceaccount:"
SYSTEM_NAMESPACES = ("kube-system", SYSTEM_NAMESPACE)


def set_user(request: AdmissionRequest) -> Manifest:
    """The object with the annotation of its user; the object itself when it needs no change."""
    assert request.new is not None
    user = user_of(request)
    if not user or USER in annotations_in(request.new):
        return request.new
    metadata = request.new.get("metadata") or {}
    annotations = {**annotations_in(request.new), USER: user}
    return {**request.new, "metadata": {**metadata, "annotations": annotations}}


def user_of(request: AdmissionRequest) -> str:
    """The user that an object without the annotation gets: its creator; on updates, the user it had before.

    An update by `kubectl replace` omits the annotation, as the file does. What a controller creates for a user gets
    that user from the controller, or none.
    """
    if request.operation != "CREATE":
        return annotations_in(request.old).get(USER, "")
    return "" if is_component(request.user, request.options.own_namespace) else request.user


def is_component(user: str, own_namespace: str = SYSTEM_NAMESPACE) -> bool:
    """Whether a user name is that of a component: of Kubernetes, of a node, or of Volcano.

    Other service accounts are users: pipelines and operators run with them.
    """
    if not user.startswith("system:") or user == "system:admin":
        return False
    if not user.startswith(ACCOUNT):
        return True
    return user.removeprefix(ACCOUNT).partition(":")[0] in (*SYSTEM_NAMESPACES, own_namespace)
