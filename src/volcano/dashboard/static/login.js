// Exchanges the token of a link or of the form for a cookie. The token leaves the address before anything else happens.
const fromLink = location.hash.slice(1);
history.replaceState(null, "", location.pathname + location.search);
const error = document.getElementById("error");

async function logIn(token) {
  const next = new URLSearchParams(location.search).get("next") || "/";
  const answer = await fetch("/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token, next }),
  });
  const result = await answer.json();
  if (answer.ok) {
    location.replace(result.next);
  } else {
    error.textContent = result.error;
  }
}

const form = document.getElementById("form");
if (form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    error.textContent = "";
    logIn(document.getElementById("token").value);
  });
} else if (fromLink) {
  error.textContent = "Logging in ...";
  logIn(fromLink);
}
