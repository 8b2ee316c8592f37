#include "web/client.h"

void client_of_address(const char *address, struct client *client)
{
	*client = (struct client){ 0 };
	if (!address)
		return;
	address_network(address, client->network);
	address_block(address, client->block);
	client->names = (struct fair_client){ { client->network, client->block } };
}

/* A site that reads for others is one client; it sees to their shares itself. */
void client_of_request(const struct web_request *request, struct client *client)
{
	client_of_address(request->client, client);
	client->names.names[2] = request->site[0] ? request->site : request->user;
}
